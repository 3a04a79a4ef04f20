import{a as p,c as m,qa as o}from"./chunk-32UGWPVA.js";m(p(o,null),document.getElementById("app"));
