import{a as p,c as m,qa as o}from"./chunk-T2VU6ZTN.js";m(p(o,null),document.getElementById("app"));
