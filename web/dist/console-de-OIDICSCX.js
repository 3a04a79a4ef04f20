import{a as p,c as m,la as o}from"./chunk-YGOKGBPI.js";m(p(o,null),document.getElementById("app"));
