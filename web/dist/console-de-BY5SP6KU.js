import{a as p,c as m,qa as o}from"./chunk-ZGMER3MZ.js";m(p(o,null),document.getElementById("app"));
