import{a as p,c as m,la as o}from"./chunk-5PVCXHX3.js";m(p(o,null),document.getElementById("app"));
